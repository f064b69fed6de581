package fileops

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/internal/remote"
)

// A run that ends within a directory of this machine takes no file of what is named after it.
func TestSumStops(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := remote.Location{Protocol: remote.Local, Path: dir}
	s := &summer{SumConfig: SumConfig{Recursive: true}}
	n := 0
	s.find(t.Context(), nil, []remote.Location{at, at})(func(sumJob) bool { n++; return false })
	if n != 1 {
		t.Errorf("%d files after the end", n-1)
	}
}
