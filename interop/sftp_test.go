//go:build unix

package interop

import "testing"

var (
	sftpPeerServers = []sftpServer{sshdInternal, sshdExternal, asyncsshServer, paramikoServer, pkgsftpServer}
	sftpPeerDrivers = []driver{pkgsftpDriver, paramikoDriver, asyncsshDriver}
)

// TestSFTPPeers tests the peers with each other, which checks the tests themselves.
func TestSFTPPeers(t *testing.T) {
	for _, d := range sftpPeerDrivers {
		exercise(t, d, sshdInternal, "sizes", "names", "links", "rename")
	}
	for _, m := range sftpTools {
		trade(t, m, sshdInternal, "sizes", "resume", "tree")
	}
}

// inPlaceCases are the cases in which hidden uploads and those in place differ: how files are
// written. Names and trees are the same.
var inPlaceCases = []string{"sizes", "resume", "pieces", "publish"}

// TestSFTPServer tests every peer's client with our server.
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

// TestSFTPHaul tests our client with our server.
func TestSFTPHaul(t *testing.T) {
	exercise(t, haulDriver, haulHidden)
	exercise(t, haulDriver, haulInPlace, inPlaceCases...)
}

// TestSFTPClient tests our client with every peer's server.
func TestSFTPClient(t *testing.T) {
	for _, s := range sftpPeerServers {
		exercise(t, haulDriver, s)
	}
}
