"""All that is drawn: charts, pages, and numbers as text. Each kind of page has a folder with template and script."""
