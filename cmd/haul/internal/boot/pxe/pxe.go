// Package pxe answers machines that boot from the network, next to a DHCP server that does not
// support booting. This is called ProxyDHCP: the DHCP server leases addresses, and this server adds
// the location of the boot file. It never leases an address.
//
// It implements the parts that a boot server needs of RFC 2131 (DHCP), RFC 3396 (long options), RFC
// 3046 (relay agents), RFC 4578 and PXE 2.1 (PXE), and UEFI HTTP boot. Its clients are the firmware
// of PCs (BIOS and UEFI), iPXE, U-Boot and the Raspberry Pi. Firmware has many quirks:
// docs/decisions/029-answers-to-boot-firmware.md explains code that looks odd.
//
// The package does not open sockets, read clocks or start goroutines. A driver owns the sockets at
// UDP ports 67 and 4011. It passes each packet to [Server.Handle], and sends the answer, if there
// is one:
//
//	server, err := pxe.NewServer(pxe.Rules{Files: map[pxe.Arch]string{pxe.X64: "ipxe.efi"}})
//	...
//	answer := server.Handle(time.Now(), packet, pxe.Arrival{Port: 67, Server: address}, buf[:0])
//	if answer.Packet != nil {
//		send(answer.Packet, answer.To, answer.ToPort)
//	}
//
// The driver also passes the name of each file that a machine requests to [Server.Requested], from
// which the server derives the machine's stage. If another program takes over, [Server.Memories]
// and [Server.Restore] copy the memory.
//
// The memory and the rate of answers are limited: see [MaxMachines], [MaxRate] and [MaxTotalRate].
// An answer has at most 576 bytes, and is less than 2.4 times as large as the request. It is sent
// to the local link, or to a relay agent that the rules list.
package pxe
