package meter_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
)

// Counts two transfers, and serves the counts to Prometheus during the second.
func Example() {
	m := meter.New(meter.Config{Version: "v1.0.0", Protocols: []meter.Protocol{meter.TFTP}})
	server := httptest.NewServer(m.Handler())
	defer server.Close()

	client := netip.MustParseAddrPort("192.0.2.1:2070")
	first := m.Begin(meter.Info{Protocol: meter.TFTP, Peer: client, Name: "boot/kernel"})
	first.End(meter.End{Result: meter.Done, Bytes: 8_000_000, Duration: 90 * time.Millisecond, Sent: 5588})

	second := m.Begin(meter.Info{Protocol: meter.TFTP, Peer: client, Name: "boot/initrd"})
	second.Reached(2_000)
	for s := range m.Live() {
		fmt.Println(s.Peer, "reads", s.Name, "and has", s.Bytes, "bytes")
	}

	answer, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "haul_bytes_total{direction=\"read\"") || strings.HasPrefix(line, "haul_transfers_live") {
			fmt.Print(line)
		}
	}
	// Output:
	// 192.0.2.1:2070 reads boot/initrd and has 2000 bytes
	// haul_bytes_total{direction="read",protocol="tftp"} 8.002e+06
	// haul_transfers_live{direction="read",protocol="tftp"} 1
	// haul_transfers_live{direction="write",protocol="tftp"} 0
}
