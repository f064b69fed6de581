package fileops

import (
	"io"
	"strings"
	"testing"
)

// rm -n stops at a bound, since a server can invent directories.
func TestRemoveBounds(t *testing.T) {
	m := removal{out: io.Discard, name: strings.Clone, walk: walk{dirs: maxListDirs}}
	wide := &liar{names: []string{"a/"}}
	if err := m.sayAll(t.Context(), wide, "d", 0); err == nil || !strings.Contains(err.Error(), "no more are listed") || m.errs != nil || wide.listed > 0 {
		t.Errorf("one directory too many: %v, %v, %d listings", err, m.errs, wide.listed)
	}
}
