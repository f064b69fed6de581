package main

import (
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/bench/sftpprog/sftpprogtest"
)

func TestProgram(t *testing.T) {
	sftpprogtest.Test(t, library{}, func(dir, name string) string { return filepath.Join(dir, name) })
}
