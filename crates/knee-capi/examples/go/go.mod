module example.org/bufferbloat

go 1.21
