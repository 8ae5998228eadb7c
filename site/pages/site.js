// Questions of lessons: the reader predicts, by a choice or by a drawing, and then sees what happens.
"use strict";
