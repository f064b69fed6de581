module github.com/haul-project/haul/bench

go 1.26.0

require github.com/haul-project/haul v0.0.0

require golang.org/x/sys v0.49.0 // indirect

replace github.com/haul-project/haul => ../
