package pxe_test

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/pxe"
)

// A UEFI machine is switched on. Its DISCOVER came by broadcast to port 67, on an interface
// where this server has the address 192.0.2.9.
func Example() {
	server, err := pxe.NewServer(pxe.Rules{
		Files:    map[pxe.Arch]string{pxe.X64: "ipxe.efi"},
		HTTPPort: 80,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	packet := discover(1, "\x3c\x20PXEClient:Arch:00007:UNDI:003001"+ // its class
		"\x5d\x02\x00\x07") // its architecture: UEFI x64

	// The driver sends what comes back to To and ToPort, and logs the rest.
	now := time.Now()
	answer := server.Handle(now, packet, pxe.Arrival{Port: 67, Server: pxe.Addr{192, 0, 2, 9}}, nil)
	fmt.Println(answer.MAC, answer.Client.Arch, answer.Why())
	fmt.Println(answer.File, "as", answer.Form, "to", answer.To, answer.ToPort)

	// Nothing goes to machines that do not boot from the network.
	packet = discover(2, "")
	answer = server.Handle(now, packet, pxe.Arrival{Port: 67, Server: pxe.Addr{192, 0, 2, 9}}, nil)
	fmt.Println(len(answer.Packet), "bytes:", answer.Why())
	// Output:
	// 52:54:00:12:34:56 UEFI x64 answered
	// ipxe.efi as redirect to 255.255.255.255 68
	// 0 bytes: it does not boot from the network
}

// discover returns a DISCOVER of the machine 52:54:00:12:34:56 (RFC 2131 §2), as a driver
// receives it.
func discover(xid byte, options string) []byte {
	packet := make([]byte, 240)
	copy(packet, []byte{1, 1, 6, 0, 0, 0, 0, xid})                // BOOTREQUEST, Ethernet, 6 bytes
	copy(packet[28:], []byte{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}) // chaddr
	copy(packet[236:], []byte{0x63, 0x82, 0x53, 0x63})            // the cookie
	return append(packet, "\x35\x01\x01"+options+"\xff"...)
}
