package ownprocess

import (
	"strings"
	"testing"
)

// A process that may not open enough descriptors is refused; the error names the limit to raise.
func TestMayOpen(t *testing.T) {
	if err := MayOpen(OpenFiles()+1, "machines"); err == nil || !strings.Contains(err.Error(), "machines at once") || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("one more than may be: %v", err)
	}
	if err := MayOpen(1, "machines"); err != nil {
		t.Error(err)
	}
}
