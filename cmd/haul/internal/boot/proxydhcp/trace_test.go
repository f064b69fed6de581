package proxydhcp

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/internal/golden"
)

// traced makes a tracing service log packets, and returns its log.
func traced(t *testing.T, json, dryRun bool, packets ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	b, _ := newTestService(t, Settings{Answer: true, Files: map[pxe.Arch]string{pxe.X64: "ipxe.efi"}, Relays: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}})
	b.log.Close()
	b.log = newEventLog(console.NewLogger(&out, json, 0), true, dryRun)
	b.interfaces.list = func() ([]Interface, error) { return b.links, nil }
	b.interfaces.refresh()
	for i, packet := range packets {
		came := arrival{peer: netip.MustParseAddrPort("0.0.0.0:68"), to: broadcast, index: b.links[0].Index}
		port := uint16(dhcp.PortServer)
		if i == len(packets)-1 {
			came.index++ // by an interface that is not answered
		}
		e, _ := b.handle(packet, came, port, nil)
		b.log.report(e)
	}
	b.Close()
	lines := out.String()
	for _, line := range strings.SplitAfter(lines, "\n") { // cut off the time of each line
		if at := strings.Index(line, "level"); at >= 0 {
			lines = strings.Replace(lines, line, line[at:], 1)
		}
	}
	return lines
}

// tracePackets returns a packet for each result: answered, from a relay agent, from a client that
// does not boot, with hostile bytes, not DHCP, and on an interface that is not answered.
func tracePackets() [][]byte {
	x64, _ := ParseKind("x64")
	ipxe, _ := ParseKind("ipxe")
	mac := dhcp.MakeMAC([]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56})
	option := func(code uint8, value string) []byte {
		b := x64.appendRequest(nil, dhcp.Discover, mac, 7, dhcp.Addr{})
		return dhcp.AppendEnd(dhcp.AppendOption(b[:optionsEnd(b)], code, []byte(value)), 0)
	}
	relayed := option(dhcp.OptionRelayAgent, "\x01\x04eth0")
	copy(relayed[24:], []byte{198, 51, 100, 1})
	windows := dhcp.AppendHeader(nil, &dhcp.Header{Op: dhcp.BootRequest, HType: 1, HLen: 6, XID: 9, HardwareAddr: [16]byte{2, 2, 2, 2, 2, 2}})
	windows = append(windows, dhcp.OptionMessageType, 1, dhcp.Request)
	windows = dhcp.AppendOption(windows, 12, []byte("PC"))
	windows = dhcp.AppendOption(windows, dhcp.OptionAddress, []byte{192, 0, 2, 50})
	windows = dhcp.AppendEnd(dhcp.AppendOption(windows, dhcp.OptionVendorClass, []byte("MSFT 5.0")), 0)
	return [][]byte{
		x64.appendRequest(nil, dhcp.Discover, mac, 7, dhcp.Addr{}),
		ipxe.appendRequest(nil, dhcp.Discover, mac, 8, dhcp.Addr{}),
		relayed, windows,
		option(dhcp.OptionUserClass, "\x1b[2J\n\" 43=evil\xff"),
		[]byte("no packet\x1b]0;title\x07" + strings.Repeat("x", 100)),
		x64.appendRequest(nil, dhcp.Discover, mac, 7, dhcp.Addr{}),
	}
}

// optionsEnd returns the offset of the end of a packet's options.
func optionsEnd(b []byte) int {
	at := 240
	for b[at] != dhcp.OptionEnd {
		at += 2 + int(b[at+1])
	}
	return at
}

// A trace has a line for each packet, with its options, and the answer or the reason for none.
// Bytes from strangers are escaped.
func TestTrace(t *testing.T) {
	for name, json := range map[string]bool{"trace.txt": false, "trace.json": true} {
		got := traced(t, json, false, tracePackets()...)
		golden.Compare(t, name, got)
		if n := strings.Count(got, "\n"); n != len(tracePackets()) {
			t.Errorf("%s: %d lines for %d packets", name, n, len(tracePackets()))
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r < ' ' && r != '\n' || r == '\ufffd' }); i >= 0 {
			t.Errorf("%s: the character %q is not escaped", name, got[i:i+1])
		}
	}
	// In a dry run the lines differ only in the result.
	dry := traced(t, false, true, tracePackets()...)
	if want := strings.ReplaceAll(traced(t, false, false, tracePackets()...), "result=offered", `result="would be offered"`); dry != want {
		t.Errorf("in a dry run:\n%s\nwant:\n%s", dry, want)
	}
}

// The trace of any packet is one line.
func FuzzTrace(f *testing.F) {
	for _, b := range tracePackets() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, json := range []bool{false, true} {
			var out bytes.Buffer
			log := newEventLog(console.NewLogger(&out, json, 0), true, false)
			log.report(Event{Request: slices.Clone(b), From: netip.MustParseAddrPort("0.0.0.0:68"), Answer: pxe.Answer{Reason: pxe.NoFile}})
			log.Close()
			if s := out.String(); strings.Count(s, "\n") != 1 || strings.ContainsAny(s, "\x1b\x00\r") {
				t.Fatalf("%q", s)
			}
		}
	})
}

// A machine's stages are logged as they are reached, and counted.
func TestStagesAreLogged(t *testing.T) {
	b, out := newTestService(t, Settings{Answer: true, Files: map[pxe.Arch]string{pxe.X64: "ipxe.efi"}})
	b.config.Staged = b.log.staged
	x64, _ := ParseKind("x64")
	mac := dhcp.MakeMAC([]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56})
	at := pxe.Arrival{Port: dhcp.PortPXE, From: dhcp.Addr{192, 0, 2, 50}, FromPort: 4011, OnLink: true, Server: dhcp.Addr{192, 0, 2, 9}}
	now := time.Now().Add(-time.Hour)
	b.decide.Handle(now, x64.appendRequest(nil, dhcp.Request, mac, 7, dhcp.Addr{}), at, nil)
	b.reportChanges()
	peer := netip.MustParseAddr("::ffff:192.0.2.50")
	for _, name := range []string{"ipxe.efi", "ipxe.efi", "boot.ipxe", "debian/linux", "debian/initrd"} {
		b.Requested(peer, name)
	}
	b.Requested(netip.MustParseAddr("192.0.2.51"), "stranger")
	if n := b.Count(pxe.Kernel); n != 1 {
		t.Errorf("%d machines load a kernel, want 1", n)
	}
	b.Close()
	var got []string
	for line := range strings.Lines(out.String()) {
		_, line, _ = strings.Cut(line, "level=")
		got = append(got, strings.ReplaceAll(strings.TrimSpace(line), `mac=52:54:00:12:34:56 client=PXE arch="UEFI x64" peer=192.0.2.50`, "M"))
	}
	want := []string{
		`WARN msg=boot result=stuck M why="nothing came after the stage offered"`,
		"INFO msg=boot result=loader M file=ipxe.efi",
		"INFO msg=boot result=script M file=boot.ipxe",
		"INFO msg=boot result=kernel M file=debian/linux",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
