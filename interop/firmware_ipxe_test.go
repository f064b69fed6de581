//go:build linux

package interop

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

// A PC boots with its network card's firmware, which is iPXE. It gets a script from haul, and
// with the script a kernel and a file. The kernel is ours: it makes the emulator write its
// command line, and the sum of the file in the machine's memory.
func TestFirmwareIPXE(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 777
	d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{
		"boot.ipxe": []byte("#!ipxe\nimgfetch nowhere ||\nkernel show quiet 1 2\ninitrd image\nboot\n"),
		"show":      kernelShower(),
		"image":     content(size),
	}))
	offerAddress(t, "boot.ipxe")
	memory := filepath.Join(t.TempDir(), "memory")
	m := powerOn(t, "e1000", "-debugcon", "file:"+memory)
	m.awaitOff(t)
	wantFile(t, memory, shown("quiet 1 2", content(size)))
	wantLogged(t, logged(t, d),
		`done boot.ipxe octet blksize=1432 tsize=\d+`,
		`refused nowhere octet.*`,
		`done show octet blksize=1432 tsize=\d+`,
		fmt.Sprintf(`done image octet blksize=1432 tsize=%d`, size),
	)
}

// The same machine gets its script by TFTP, and large files by HTTP, from one haul.
func TestFirmwareIPXEOverHTTP(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 777
	url := "http://" + net.JoinHostPort(host, "80")
	d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{
		"boot.ipxe": []byte("#!ipxe\nimgfetch " + url + "/nowhere ||\nkernel " + url + "/show quiet 1 2\ninitrd " + url + "/image\nboot\n"),
		"show":      kernelShower(),
		"image":     content(size),
	}), "--http", net.JoinHostPort(host, "80"))
	offerAddress(t, "boot.ipxe")
	memory := filepath.Join(t.TempDir(), "memory")
	m := powerOn(t, "e1000", "-debugcon", "file:"+memory)
	m.awaitOff(t)
	wantFile(t, memory, shown("quiet 1 2", content(size)))
	wantLogged(t, logged(t, d), `done boot.ipxe octet blksize=1432 tsize=\d+`)
	wantHTTPLogged(t, d,
		`result=done direction=read file=/?show .*status=20[06]`,
		fmt.Sprintf(`result=done direction=read file=/?image .*status=200 bytes=%d`, size),
		`result=refused direction=read file=/?nowhere .*status=404`,
	)
}
