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

	// The machine: 53 is the type of the message, 60 its class, 93 its architecture.
	packet := pxe.AppendHeader(nil, &pxe.Header{
		Op: pxe.BootRequest, HType: 1, HLen: 6, XID: 1,
		HardwareAddr: [16]byte{0x52, 0x54, 0x00, 0x12, 0x34, 0x56},
	})
	packet = pxe.AppendOption(packet, pxe.OptionMessageType, []byte{pxe.Discover})
	packet = pxe.AppendOption(packet, pxe.OptionVendorClass, []byte("PXEClient:Arch:00007:UNDI:003001"))
	packet = pxe.AppendOption(packet, pxe.OptionArchitecture, []byte{0, 7})
	packet = pxe.AppendEnd(packet, 0)

	// The driver sends what comes back to To and ToPort, and logs the rest.
	now := time.Now()
	answer := server.Handle(now, packet, pxe.Arrival{Port: pxe.PortDHCP, Server: pxe.Addr{192, 0, 2, 9}}, nil)
	fmt.Println(answer.MAC, answer.Client.Arch, answer.Why())
	fmt.Println(answer.File, "as", answer.Form, "to", answer.To, answer.ToPort)

	// Nothing goes to machines that do not boot from the network.
	packet = pxe.AppendHeader(nil, &pxe.Header{Op: pxe.BootRequest, HType: 1, HLen: 6, XID: 2, HardwareAddr: [16]byte{0x52}})
	packet = pxe.AppendEnd(pxe.AppendOption(packet, pxe.OptionMessageType, []byte{pxe.Discover}), 0)
	answer = server.Handle(now, packet, pxe.Arrival{Port: pxe.PortDHCP, Server: pxe.Addr{192, 0, 2, 9}}, nil)
	fmt.Println(len(answer.Packet), "bytes:", answer.Why())
	// Output:
	// 52:54:00:12:34:56 UEFI x64 answered
	// ipxe.efi as redirect to 255.255.255.255 68
	// 0 bytes: it does not boot from the network
}
