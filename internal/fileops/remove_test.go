package fileops

import (
	"io"
	"strings"
	"testing"
)

// rm -n ends at a bound, as a server can make up directories.
func TestRemoveBounds(t *testing.T) {
	m := removal{out: io.Discard, name: strings.Clone, walk: walk{dirs: maxListDirs}}
	if err := m.sayAll(t.Context(), nil, "d", 0); err == nil || m.errs != nil {
		t.Errorf("one directory too many: %v, %v", err, m.errs)
	}
}
