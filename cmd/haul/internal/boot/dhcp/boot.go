package dhcp

// These are the UDP ports of servers and clients (RFC 2131 §4.1). After a redirect, a PXE client
// requests its boot file on PortPXE (PXE 2.1 §2.2.3).
const (
	PortServer = 67
	PortClient = 68
	PortPXE    = 4011
)

// These are features of iPXE, which it sends as options within option 175 (its
// include/ipxe/features.h).
const (
	FeatureHTTP    = 0x13
	FeatureBZImage = 0x18
	FeatureEFI     = 0x24
)

// UserClassIPXE is the user class of iPXE, in option 77.
const UserClassIPXE = "iPXE"

// PiMachineID is a part of the value of option 97 that a Raspberry Pi 4 sends.
const PiMachineID = "RPi"

// PiVendors holds the first three bytes of the MACs of Raspberry Pi boards.
var PiVendors = [][3]byte{
	{0x28, 0xcd, 0xc1}, {0x2c, 0xcf, 0x67}, {0x88, 0xa2, 0x9e}, {0xb8, 0x27, 0xeb},
	{0xd8, 0x3a, 0xdd}, {0xdc, 0xa6, 0x32}, {0xe4, 0x5f, 0x01},
}
