package pxe

// A Reason is why a packet is answered or not.
type Reason uint8

// The reasons.
const (
	Answered Reason = iota
	Malformed
	NotRequest
	NoMAC
	NotDiscover
	NoBootClass
	HostIgnored
	HostUnknown
	NoArch
	NoFile
	NoHTTP
	HTTPAtPXE
	OtherRelay
	OffLink
	TooLong
	MachineRate
	TotalRate
	OtherLink  // for a driver: it came by an interface whose clients are not answered
	NumReasons // how many there are
)

var reasonTexts = [NumReasons]string{
	Answered:    "answered",
	Malformed:   "malformed packet",
	NotRequest:  "it is the answer of a server",
	NoMAC:       "it has no hardware address",
	NotDiscover: "its type is not answered on this port",
	NoBootClass: "it does not boot from the network",
	HostIgnored: "a rule ignores this host",
	HostUnknown: "no rule knows this host",
	NoArch:      "unknown architecture",
	NoFile:      "no boot file for this architecture",
	NoHTTP:      "it boots by HTTP, which is served at no address that it reaches",
	HTTPAtPXE:   "it boots by HTTP and asks the port of PXE",
	OtherRelay:  "its relay agent is in none of the networks of relay agents",
	OffLink:     "its address is neither on this link nor in a network of relay agents",
	TooLong:     "the answer would be longer than 576 bytes",
	MachineRate: "too many requests of this machine",
	TotalRate:   "too many requests in all",
	OtherLink:   "it came by an interface whose clients are not answered",
}

// String returns the reason in plain English, for the log and as a label of metrics.
func (r Reason) String() string {
	if r < NumReasons {
		return reasonTexts[r]
	}
	return "unknown reason"
}
