//go:build !unix

package tftp

import (
	"os"
	"testing"
)

// pipe makes a directory instead, because there are no named pipes.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
