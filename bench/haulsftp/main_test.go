package main

import (
	"testing"

	"github.com/haul-project/haul/bench/sftpprog/sftpprogtest"
)

func TestProgram(t *testing.T) {
	sftpprogtest.Test(t, library{}, func(_, name string) string { return "/" + name })
}
