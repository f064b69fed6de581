// Package pxe answers machines that boot from the network, next to a DHCP server that does not know
// about booting. This is called ProxyDHCP: the DHCP server leases addresses, and this server adds
// the location of the boot file. It never leases an address.
//
// It implements the parts of RFC 2131 (DHCP), RFC 3396 (long options), RFC 3046 (relay agents), RFC
// 4578 and PXE 2.1 (PXE), and of UEFI HTTP boot that a boot server needs. Clients are the firmware
// of PCs (BIOS and UEFI), iPXE, U-Boot and the Raspberry Pi. Firmware has many quirks:
// https://github.com/haul-project/haul/blob/main/docs/decisions/029-answers-to-boot-firmware.md
// gives the reasons for code that looks odd.
//
// Nothing here opens a socket, reads a clock or starts a goroutine. A driver owns the
// sockets of UDP ports 67 and 4011. It passes each packet to [Server.Handle] and sends the
// answer, if there is one:
//
//	server, err := pxe.NewServer(pxe.Rules{Files: map[pxe.Arch]string{pxe.X64: "ipxe.efi"}})
//	...
//	answer := server.Handle(time.Now(), packet, pxe.Arrival{Port: 67, Server: address}, buf[:0])
//	if answer.Packet != nil {
//		send(answer.Packet, answer.To, answer.ToPort)
//	}
//
// It also passes the name of each file that a machine requests to [Server.Requested], so that the
// server knows the machine's stage. A program that takes over from another one copies its memory
// with [Server.Memories] and [Server.Restore].
//
// All memory has bounds: [MaxMachines], [MaxRate], [MaxTotalRate]. An answer has at most
// 576 bytes, less than 2.4 times the size of the request, and goes to the link or to
// a relay agent from a list.
//
// # Stability
//
// The package is young: until version 1 its names can change in any release, and the
// changelog says how. Errors are for people; their texts can change at any time.
package pxe

import "github.com/haul-project/haul/internal/dhcp"

// An Addr is an IPv4 address. netip.Addr.As4 returns one.
type Addr = dhcp.Addr

// A MAC is the hardware address of a client, of 1 to 16 bytes. MACs are comparable.
type MAC = dhcp.MAC

// A Network is an IPv4 prefix, such as 192.0.2.0/24.
type Network = dhcp.Network

// ParseMAC parses a MAC in hexadecimal: 6 to 16 bytes with two digits each, separated by colons or
// by hyphens.
func ParseMAC(text string) (MAC, error) { return dhcp.ParseMAC(text) }
