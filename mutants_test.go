package haul

import (
	"os"
	"strings"
	"testing"
)

// Each bug in scripts/mutants.txt can be planted: the line that it replaces is in its file exactly
// once.
func TestMutantsFit(t *testing.T) {
	list, err := os.ReadFile("scripts/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	var file string
	var code []byte
	n := 0
	for i, line := range strings.Split(string(list), "\n") {
		old, isOld := strings.CutPrefix(line, "- ")
		switch {
		case line == "" || line[0] == '#' || line[0] == '+':
		case isOld:
			n++
			if c := strings.Count(string(code), old); c != 1 {
				t.Errorf("line %d: %q is in %s %d times, want once", i+1, old, file, c)
			}
		default:
			file, _, _ = strings.Cut(line, " ")
			if code, err = os.ReadFile(file); err != nil {
				t.Errorf("line %d: %v", i+1, err)
			}
		}
	}
	if n == 0 {
		t.Error("the list is empty")
	}
}
