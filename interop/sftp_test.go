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
		trade(t, m, sshdInternal, "sizes", "resume", "tree")
	}
}

// Of what differs between hidden uploads and those in place: how files are written.
// Names and trees are the same.
var inPlaceCases = []string{"sizes", "resume", "pieces", "publish"}

// TestSFTPServer has every peer's client use our server.
func TestSFTPServer(t *testing.T) {
	for _, d := range sftpPeerDrivers {
		exercise(t, d, haulHidden)
		exercise(t, d, haulInPlace, inPlaceCases...)
	}
	for _, m := range sftpTools {
		trade(t, m, haulHidden)
		trade(t, m, haulInPlace, inPlaceCases...)
	}
}

// TestSFTPHaul has our client use our server.
func TestSFTPHaul(t *testing.T) {
	exercise(t, haulDriver, haulHidden)
	exercise(t, haulDriver, haulInPlace, inPlaceCases...)
}

// TestSFTPClient has our client use every peer's server.
func TestSFTPClient(t *testing.T) {
	for _, s := range sftpPeerServers {
		exercise(t, haulDriver, s)
	}
}
