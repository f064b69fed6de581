//go:build unix

package interop

import (
	"strings"
	"testing"
)

// sshd with haul for its subsystem: the login is OpenSSH's, and the files are haul's.
var (
	subsystemHidden = sftpServer{
		name:  "sshd, haul sftp-server",
		start: func(t *testing.T, dir string) login { return startSubsystem(t, dir) },
	}
	subsystemInPlace = sftpServer{
		name:  "sshd, haul sftp-server in place",
		start: func(t *testing.T, dir string) login { return startSubsystem(t, dir, "--in-place") },
	}
)

// startSubsystem starts sshd with "haul sftp-server" and the options given.
func startSubsystem(t *testing.T, dir string, options ...string) login {
	t.Helper()
	return startSSHD(t, dir, "Subsystem sftp "+strings.Join(append([]string{haul(t).path, "sftp-server"}, options...), " "))
}

// TestSFTPSubsystem has the clients use haul below an sshd.
func TestSFTPSubsystem(t *testing.T) {
	for _, d := range append(sftpPeerDrivers, haulDriver) {
		exercise(t, d, subsystemHidden)
	}
	for _, m := range sftpTools {
		trade(t, m, subsystemHidden)
		trade(t, m, subsystemInPlace, "resume")
	}
}
