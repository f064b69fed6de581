//go:build unix

package main

import (
	"os"
	"testing"
)

// At the start, the log reports for each protocol a directory that uploads cannot be written to.
func TestServeUnwritable(t *testing.T) {
	for _, protocol := range []string{"tftp", "http", "sftp"} {
		dir := servedDir(t, nil)
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		args := []string{"serve", dir, "--upload", "create", "--" + protocol, "127.0.0.1:0"}
		if protocol == "sftp" {
			args = append(args, "--host-keys", t.TempDir())
		}
		if os.Geteuid() == 0 {
			args = append(args, "--user", "65534:65534") // root may write everywhere
		}
		c := runChild(t, childOptions{env: []string{noUsers(t)}}, args...)
		c.await(protocol+": uploads will fail", "directory="+dir, "permission denied")
		c.stop()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
