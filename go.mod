module github.com/haul-project/haul

go 1.26
