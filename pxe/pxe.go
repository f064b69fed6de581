// Package pxe answers machines that boot from the network, beside a DHCP server that knows
// nothing of it. That is called ProxyDHCP: the DHCP server leases addresses, and this one
// adds where the boot file is. It never leases an address.
//
// It implements what a boot server needs of RFC 2131 (DHCP), RFC 3396 (long options), RFC
// 3046 (relay agents), RFC 4578 and PXE 2.1 (PXE), and of HTTP boot in UEFI. Clients are
// the firmware of PCs (BIOS and UEFI), iPXE, U-Boot and the Raspberry Pi. Firmware has many
// quirks: docs/decisions/029-answers-to-boot-firmware.md has the reasons for what looks odd.
//
// Nothing here opens a socket, reads a clock or starts a goroutine. A driver owns the
// sockets of ports 67 and 4011, and does three things:
//
//  1. hand every packet to [Server.Handle], and send what it returns;
//  2. hand the name of every file that is requested to [Server.Requested];
//  3. serve the boot files, and the scripts which [ReadMenu] makes.
//
// A program that takes over from another gets what that remembers by [Server.Memories] and
// [Server.Restore].
//
// All memory has bounds: [MaxMachines], [MaxRate], [MaxTotalRate]. An answer has at most
// [MaxReply] bytes, less than 2.4 times what the request had, and goes to the link or to
// a relay agent from a list.
package pxe
