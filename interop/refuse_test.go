//go:build unix

package interop

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// allOptions are the values of --refuse that clients request.
const allOptions = "blksize,blksize2,tsize,timeout,utimeout,windowsize,rollover"

// Every client moves files with a server that refuses all its options, as with one that supports
// none.
func TestRefusedOptions(t *testing.T) {
	for _, c := range append(peerClients, haulClient) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, c, server{name: "haul", start: func(t *testing.T, dir string) netip.AddrPort {
				a, _ := serve(t, dir, "--upload", "create", "--refuse", allOptions+" 127.0.0.0/8")
				return a
			}})
			x.both(t, c.asks[len(c.asks)-1], 5000)
		})
	}
}

// For the options that tftpd-hpa supports, haul confirms the same ones with the same values: with
// --refuse and without, and for blksize2. (tftpd-hpa answers a value below the range with ERROR
// 8, which haul ignores, and confirms two different sizes if both blksize and blksize2 are
// requested.)
func TestOptionsAsTFTPDHPA(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), content(1000), 0o644); err != nil {
		t.Fatal(err)
	}
	p := find(t, "tftpd-hpa", "in.tftpd")
	needRoot(t, "in.tftpd changes its root directory")
	for _, refused := range [][]string{nil, {"blksize"}, {"BLKSIZE", "tsize"}, {"tsize", "timeout", "blksize", "blksize2", "utimeout", "rollover"}} {
		name := strings.Join(refused, ",")
		theirs := freePort(t)
		args := []string{"--foreground", "--address", theirs.String(), "--secure", "--user", "root"}
		for _, o := range refused {
			args = append(args, "--refuse", o)
		}
		p.start(t, append(args, dir)...).awaitAnswer(t, theirs)
		args = nil
		if refused != nil {
			args = []string{"--refuse", name}
		}
		ours, _ := serve(t, dir, args...)
		for _, ask := range []string{
			"blksize 1428", "blksize2 1428", "blksize2 65464", "blksize2 512", "blksize2 8",
			"tsize 0 blksize 1024 timeout 3", "TSize 0 BLKSIZE 1024", "rollover 1", "rollover 0 utimeout 500000", "multicast", "blksize enable tsize 0",
		} {
			if a, b := answerTo(t, ours, ask), answerTo(t, theirs, ask); a != b {
				t.Errorf("refused: %q, asked: %s: haul answers %q, tftpd-hpa %q", name, ask, a, b)
			}
		}
	}
}

// answerTo requests a file, and returns the options of the OACK in order, or the first bytes of
// another packet.
func answerTo(t *testing.T, server netip.AddrPort, options string) string {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request := "\x00\x01f\x00octet\x00" + strings.ReplaceAll(options, " ", "\x00") + "\x00"
	if _, err := c.WriteToUDPAddrPort([]byte(request), server); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	_ = c.SetReadDeadline(time.Now().Add(startPatience))
	n, from, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.WriteToUDPAddrPort([]byte("\x00\x05\x00\x00enough\x00"), from)
	if b[1] != 6 {
		return string(b[:4])
	}
	fields := strings.Split(strings.ToLower(string(b[2:n-1])), "\x00")
	var pairs []string
	for pair := range slices.Chunk(fields, 2) {
		pairs = append(pairs, strings.Join(pair, " "))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}
