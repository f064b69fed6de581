//go:build unix

package interop

import "testing"

var (
	sftpPeerServers = []sftpServer{sshdInternal, sshdExternal, asyncsshServer, paramikoServer, pkgsftpServer}
	sftpPeerDrivers = []driver{pkgsftpDriver, paramikoDriver, asyncsshDriver}
)

// TestSFTPPeers has the peers meet each other, which proves the harness.
func TestSFTPPeers(t *testing.T) {
	for _, d := range sftpPeerDrivers {
		exercise(t, d, sshdInternal, "sizes", "names", "links", "rename")
	}
	for _, m := range sftpTools {
		trade(t, m, sshdInternal)
	}
}

// TestSFTPServer has every peer's client use our server.
func TestSFTPServer(t *testing.T) {
	for _, s := range []sftpServer{haulHidden, haulInPlace} {
		for _, d := range sftpPeerDrivers {
			exercise(t, d, s)
		}
		for _, m := range sftpTools {
			trade(t, m, s)
		}
	}
}

// TestSFTPHaul has our client use our server.
func TestSFTPHaul(t *testing.T) {
	exercise(t, haulDriver, haulHidden)
	exercise(t, haulDriver, haulInPlace)
}

// TestSFTPClient has our client use every peer's server.
func TestSFTPClient(t *testing.T) {
	for _, s := range sftpPeerServers {
		exercise(t, haulDriver, s)
	}
}
