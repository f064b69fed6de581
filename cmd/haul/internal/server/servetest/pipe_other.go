//go:build !unix

package servetest

import "testing"

// MakePipe makes a named pipe.
func MakePipe(t *testing.T, _ string) {
	t.Helper()
	t.Skip("no named pipes here")
}
