package wire

import (
	"encoding/binary"
	"iter"
)

// A Reply is what a server answers. The Type says which fields count:
//
//	VERSION           Version, Pairs
//	STATUS            Status, Message, Language
//	HANDLE            Handle
//	DATA              Data
//	NAME              Names
//	ATTRS             Attrs
//	EXTENDED_REPLY    Extended
//
// The others are zero. Slices are views of the packet.
type Reply struct {
	Type     Type
	ID       uint32 // the request's; VERSION has none
	Version  uint32 // the one to speak
	Status   Status
	Attrs    Attrs
	Message  []byte // the server's own words; older servers leave it out
	Language []byte // which they are in; the same
	Handle   []byte // at most MaxHandle bytes
	Data     []byte
	Names    Names
	Pairs    Pairs  // what the server announces
	Extended []byte // read by the method for the extension asked for
}

// ParseReply reads one whole packet that a server sent (draft, section 7).
// Bytes behind its last field are passed over. An error is always an [*Error].
// Whether it is a reply that fits the request is not known here.
func ParseReply(b []byte) (Reply, error) {
	h, err := whole(b)
	if err != nil {
		return Reply{}, err
	}
	p := Reply{Type: h.Type, ID: h.ID}
	r := reader{b: b[HeaderSize:]}
	switch h.Type {
	case TypeVersion:
		p.Version, p.ID = h.ID, 0
		p.Pairs = r.pairs()
	case TypeStatus:
		p.Status = Status(r.uint32("status"))
		if len(r.b) > 0 { // servers of before version 3 end here, and some of version 3
			p.Message = r.bytes("message", MaxPacket)
		}
		if len(r.b) > 0 {
			p.Language = r.bytes("language", MaxPacket)
		}
	case TypeHandle:
		p.Handle = r.handle("handle")
	case TypeData:
		p.Data = r.bytes("data", MaxPacket)
	case TypeName:
		p.Names = r.names()
	case TypeAttrs:
		p.Attrs = r.attrs()
	case TypeExtendedReply:
		p.Extended = r.b
	default:
		return Reply{}, h.unsupported("type", "not a reply")
	}
	if r.failed() {
		return Reply{}, r.error(h)
	}
	return p, nil
}

// Err returns a [*StatusError] for a STATUS other than OK, and so for EOF. For
// all other replies it is nil.
func (p *Reply) Err() error {
	if p.Type != TypeStatus || p.Status == OK {
		return nil
	}
	return &StatusError{Status: p.Status, Message: string(p.Message)}
}

// An Entry is a name in a NAME reply.
type Entry struct {
	Name  []byte // in a reply to READDIR without directory: a peer may lie
	Long  []byte // a line as ls -l prints it: see [AppendLongName]
	Attrs Attrs  // without Flags, in replies to other requests than READDIR
}

// minEntry is how many bytes an entry has at the least: two lengths and flags.
const minEntry = 4 + 4 + 4

// Names are the entries of a NAME reply as they came. All have been checked.
type Names struct {
	count int
	b     []byte
}

// Len returns how many there are.
func (n Names) Len() int { return n.count }

// All yields each in its turn.
func (n Names) All() iter.Seq[Entry] {
	return func(yield func(e Entry) bool) {
		r := reader{b: n.b}
		for range n.count {
			if !yield(r.entry()) {
				return
			}
		}
	}
}

// One returns the entry of a reply to REALPATH and its like, or false if it has none, or
// more than one.
func (n Names) One() (Entry, bool) {
	if n.count != 1 {
		return Entry{}, false
	}
	r := reader{b: n.b}
	return r.entry(), true
}

// names takes entries, and sees that all of them are there.
func (r *reader) names() Names {
	n := Names{count: r.count("names", minEntry, MaxPacket/minEntry), b: r.b}
	for range n.count {
		r.entry()
		if r.failed() {
			return Names{}
		}
	}
	return n
}

func (r *reader) entry() Entry {
	return Entry{
		Name:  r.bytes("name", MaxPacket),
		Long:  r.bytes("long name", MaxPacket),
		Attrs: r.attrs(),
	}
}

// AppendHandle appends a HANDLE.
func AppendHandle(b []byte, id uint32, handle string) []byte {
	return appendOne(b, TypeHandle, id, handle)
}

// AppendData appends a DATA.
func AppendData(b []byte, id uint32, data []byte) []byte {
	return append(AppendDataHeader(b, id, len(data)), data...)
}

// AppendDataHeader appends a DATA without its n bytes of data, which have to
// follow. To read a file straight into a packet, leave DataHeaderSize bytes
// free, read behind them, and then append the header in front:
//
//	at := len(b) + DataHeaderSize
//	n, err := file.ReadAt(b[at:at+length], offset)
//	b = AppendDataHeader(b, id, n)[:at+n]
func AppendDataHeader(b []byte, id uint32, n int) []byte {
	b, at := begin(b, TypeData, id)
	b = appendUint32(b, uint32(n))
	return announce(b, at, n)
}

// AppendName appends a NAME with one name, the answer to REALPATH, READLINK,
// expand-path@openssh.com and home-directory. Like OpenSSH's server it gives the
// name as the long name too, and no attributes.
func AppendName(b []byte, id uint32, name string) []byte {
	at := len(b)
	b = AppendNames(b, id)
	b = appendString(appendString(b, name), name)
	return count(appendAttrs(b, Attrs{}), at)
}

// AppendNames appends a NAME without any names, the beginning of an answer to
// READDIR. [AppendEntry] adds them.
func AppendNames(b []byte, id uint32) []byte {
	b, at := begin(b, TypeName, id)
	return end(appendUint32(b, 0), at)
}

// AppendEntry adds a name to the NAME that reaches from at to the end of b. Its
// length is set each time, so the packet is whole after any of them. Stop while
// it is well below SureData: some clients take no more.
func AppendEntry(b []byte, at int, name string, long []byte, a Attrs) []byte {
	b = appendString(appendString(b, name), long)
	return count(appendAttrs(b, a), at)
}

// count adds one to the names of the NAME that reaches from at to the end of b.
func count(b []byte, at int) []byte {
	n := b[at+HeaderSize:]
	binary.BigEndian.PutUint32(n, binary.BigEndian.Uint32(n)+1)
	return end(b, at)
}

// AppendAttrs appends an ATTRS.
func AppendAttrs(b []byte, id uint32, a Attrs) []byte {
	b, at := begin(b, TypeAttrs, id)
	return end(appendAttrs(b, a), at)
}
