//go:build unix && !linux

package localdir_test

import (
	"os"
	"testing"
)

// dropRoot runs f without root's rights to all files.
func dropRoot(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("run as root, who may do everything")
	}
	f()
}
