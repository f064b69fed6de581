package trace_test

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
)

func Example() {
	t := trace.New(trace.Config{Text: os.Stdout, HexBytes: 16})
	at := time.Date(2026, 1, 2, 12, 0, 1, 123456000, time.UTC)
	client := netip.MustParseAddrPort("192.0.2.7:2070")
	t.Record(trace.Packet{
		Time:  at,
		Peer:  client,
		Local: netip.AddrPortFrom(netip.Addr{}, 69), // our address is not known, only the port
		Data:  []byte("\x00\x01boot/kernel\x00octet\x00blksize\x001468\x00"),
	})
	t.Record(trace.Packet{
		Time:  at.Add(250 * time.Microsecond),
		Sent:  true,
		Peer:  client,
		Local: netip.MustParseAddrPort("192.0.2.1:40000"),
		Data:  []byte("\x00\x06blksize\x001468\x00"),
	})
	if err := t.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 12:00:01.123456 192.0.2.7:2070 > :69  RRQ "boot/kernel" octet blksize=1468  (33 bytes)
	//     0000  00 01 62 6f 6f 74 2f 6b 65 72 6e 65 6c 00 6f 63  |..boot/kernel.oc|
	//     ... 17 bytes more
	// 12:00:01.123706 192.0.2.1:40000 > 192.0.2.7:2070  OACK blksize=1468  (15 bytes)
	//     0000  00 06 62 6c 6b 73 69 7a 65 00 31 34 36 38 00     |..blksize.1468.|
}

func ExampleDescribe() {
	fmt.Println(trace.Describe([]byte("\x00\x05\x00\x01no such file\x00")))
	fmt.Println(trace.Describe([]byte("\x00\x01\x1b[2Jevil\x00octet\x00tsize\x00enable\x00")))
	// Output:
	// ERROR 1 file not found: "no such file"
	// RRQ "\x1b[2Jevil" octet tsize="enable"
}
