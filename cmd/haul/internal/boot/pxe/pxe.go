// Package pxe answers machines that boot from the network, next to a DHCP server that does not know
// about booting. This is called ProxyDHCP: the DHCP server leases addresses, and this server adds
// the location of the boot file. It never leases an address.
//
// It implements the parts of RFC 2131 (DHCP), RFC 3396 (long options), RFC 3046 (relay agents), RFC
// 4578 and PXE 2.1 (PXE), and of UEFI HTTP boot that a boot server needs. Clients are the firmware
// of PCs (BIOS and UEFI), iPXE, U-Boot and the Raspberry Pi. Firmware has many quirks:
// docs/decisions/029-answers-to-boot-firmware.md gives the reasons for code that looks odd.
//
// Nothing here opens a socket, reads a clock or starts a goroutine. A driver owns the sockets of
// UDP ports 67 and 4011. It passes each packet to [Server.Handle] and sends the answer, if there is
// one:
//
//	server, err := pxe.NewServer(pxe.Rules{Files: map[pxe.Arch]string{pxe.X64: "ipxe.efi"}})
//	...
//	answer := server.Handle(time.Now(), packet, pxe.Arrival{Port: 67, Server: address}, buf[:0])
//	if answer.Packet != nil {
//		send(answer.Packet, answer.To, answer.ToPort)
//	}
//
// It also passes the name of each file that a machine requests to [Server.Requested], so that the
// server knows the machine's stage. When a program takes over from another one, the memory is
// copied with [Server.Memories] and [Server.Restore].
//
// The memory and the rate of answers are bounded: see [MaxMachines], [MaxRate] and [MaxTotalRate].
// An answer has at most 576 bytes, which is less than 2.4 times the size of the request. It is sent
// to the link, or to a relay agent from a list.
package pxe
