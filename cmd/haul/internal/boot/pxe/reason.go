package pxe

// A Reason says why a packet is not answered, or that it is answered.
type Reason uint8

// These are the reasons.
const (
	Answered Reason = iota
	Malformed
	notRequest
	noMAC
	NotDiscover
	noBootClass
	hostIgnored
	hostUnknown
	noArch
	NoFile
	noHTTP
	httpAtPXE
	otherRelay
	OffLink
	tooLong
	MachineRate
	TotalRate
	OtherLink  // set by the driver: the packet arrived on an interface on which clients are not answered
	NumReasons // the number of reasons
)

var reasonTexts = [NumReasons]string{
	Answered:    "answered",
	Malformed:   "malformed packet",
	notRequest:  "it is the answer of a server",
	noMAC:       "it has no hardware address",
	NotDiscover: "its type is not answered on this port",
	noBootClass: "it does not boot from the network",
	hostIgnored: "a rule ignores this host",
	hostUnknown: "no rule knows this host",
	noArch:      "unknown architecture",
	NoFile:      "no boot file for this architecture",
	noHTTP:      "it boots by HTTP, which is served at no address that it reaches",
	httpAtPXE:   "it boots by HTTP and asks the port of PXE",
	otherRelay:  "its relay agent is in none of the networks of relay agents",
	OffLink:     "its address is neither on this link nor in a network of relay agents",
	tooLong:     "the answer would be longer than 576 bytes",
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
