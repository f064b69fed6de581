package udp_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/haul-project/haul/udp"
)

// Send three datagrams in one message, and receive them in batches.
func Example() {
	ctx := context.Background()
	loopback := netip.MustParseAddrPort("127.0.0.1:0")
	server, err := udp.Listen(ctx, loopback, udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := udp.Listen(ctx, loopback, udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	request := udp.Message{Peer: server.LocalAddr(), Data: []byte("onetwosix"), Segment: 3}
	if _, err := client.Write([]udp.Message{request}); err != nil {
		log.Fatal(err)
	}

	in := make([]udp.Message, server.Limits().Messages)
	for i := range in {
		in[i].Data = make([]byte, max(server.Limits().Datagram, 1500))
	}
	for received := 0; received < 3; {
		n, err := server.Read(in, time.Now().Add(time.Second))
		if err != nil {
			log.Fatal(err)
		}
		for i := range in[:n] {
			for datagram := range in[i].Datagrams() {
				fmt.Printf("%s\n", datagram)
				received++
			}
		}
	}
	// Output:
	// one
	// two
	// six
}
