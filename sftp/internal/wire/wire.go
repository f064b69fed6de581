// Package wire encodes and decodes the packets of SFTP, without using a network. It supports the
// requests and replies of version 3 of the protocol (draft-ietf-secsh-filexfer-02), the extensions
// of OpenSSH (its PROTOCOL file, section 4), and check-file.
//
// The package opens no channel, reads no clock, touches no file, and keeps no state between
// packets. A driver does all that. To send, the driver calls the Append functions. Each appends one
// packet, with its length filled in, so that one buffer can hold many packets and one write can
// send them all. The functions never fail. The driver has to ensure that nothing is longer than the
// peer accepts. To receive, a server
//
//  1. reads bytes until [PacketLength] finds a whole packet at the beginning;
//  2. passes the packet to [ParseRequest], whose error is an [*Error] that says how to
//     answer;
//  3. answers each request once, and INIT with [AppendVersion];
//  4. answers READ with [AppendDataHeader], so that the data of the file is read directly
//     after the space for the header, and never copied.
//
// A client numbers its requests and accepts replies in any order. It
//
//  1. reads [HeaderSize] bytes and passes them to [ParseHeader];
//  2. for a DATA, reads up to [DataHeaderSize] bytes, passes them to [ParseDataHeader], and
//     then reads the data into its destination;
//  3. for any other type, reads the rest of the packet, and passes all of it to [ParseReply].
//
// Parsed values refer to the bytes of the packet, and are valid until these change. Nothing is
// copied or allocated. No length or count is used before the packet is known to contain as many
// bytes. Paths and names are returned as received: the driver has to check which of them are
// allowed.
package wire

import (
	"math"
	"strconv"
)

// ProtocolVersion is the version of SFTP that this package supports. A server answers INIT with it,
// whatever version the client offers, as OpenSSH's server does.
const ProtocolVersion = 3

// Bounds on the peer's data. Larger values are an error.
const (
	// MaxPacket is the largest size of a packet in bytes, including its length field. OpenSSH
	// accepts 256 KiB. This bound is a little larger, so that a packet can hold 256 KiB of data.
	MaxPacket = 256<<10 + 1<<10

	// MaxFile is larger than any file, in bytes. It leaves room for the offsets of requests beyond
	// the end of a file.
	MaxFile = math.MaxInt64 - math.MaxUint32

	MaxHandle = 256  // bytes in a handle (draft, section 7)
	MaxPath   = 4096 // bytes in a path of a request; OpenSSH answers BadMessage too if a path is longer
	MaxPairs  = 256  // extension pairs in a packet, or in one file's attributes

	maxAlgorithms = 1024 // bytes in a list of hash algorithms
	maxMessage    = 256  // bytes in a status message that is sent or shown
)

// The number of bytes of data that a peer accepts in one WRITE, or returns for one READ.
const (
	SureData   = 32 << 10  // accepted by every peer: section 3 of the draft requires packets of 34000 bytes
	CommonData = 255 << 10 // the limit that OpenSSH announces by limits@openssh.com; request no more
)

// A Type is the type of a packet (draft, section 3).
type Type uint8

// The packet types.
const (
	TypeInit     Type = 1
	TypeVersion  Type = 2
	TypeOpen     Type = 3
	TypeClose    Type = 4
	TypeRead     Type = 5
	TypeWrite    Type = 6
	TypeLstat    Type = 7
	TypeFstat    Type = 8
	TypeSetstat  Type = 9
	TypeFsetstat Type = 10
	TypeOpendir  Type = 11
	TypeReaddir  Type = 12
	TypeRemove   Type = 13
	TypeMkdir    Type = 14
	TypeRmdir    Type = 15
	TypeRealpath Type = 16
	TypeStat     Type = 17
	TypeRename   Type = 18
	TypeReadlink Type = 19
	TypeSymlink  Type = 20

	TypeStatus Type = 101
	TypeHandle Type = 102
	TypeData   Type = 103
	TypeName   Type = 104
	TypeAttrs  Type = 105

	TypeExtended      Type = 200
	TypeExtendedReply Type = 201
)

var typeNames = [...]string{
	TypeInit:     "INIT",
	TypeVersion:  "VERSION",
	TypeOpen:     "OPEN",
	TypeClose:    "CLOSE",
	TypeRead:     "READ",
	TypeWrite:    "WRITE",
	TypeLstat:    "LSTAT",
	TypeFstat:    "FSTAT",
	TypeSetstat:  "SETSTAT",
	TypeFsetstat: "FSETSTAT",
	TypeOpendir:  "OPENDIR",
	TypeReaddir:  "READDIR",
	TypeRemove:   "REMOVE",
	TypeMkdir:    "MKDIR",
	TypeRmdir:    "RMDIR",
	TypeRealpath: "REALPATH",
	TypeStat:     "STAT",
	TypeRename:   "RENAME",
	TypeReadlink: "READLINK",
	TypeSymlink:  "SYMLINK",

	TypeStatus: "STATUS",
	TypeHandle: "HANDLE",
	TypeData:   "DATA",
	TypeName:   "NAME",
	TypeAttrs:  "ATTRS",

	TypeExtended:      "EXTENDED",
	TypeExtendedReply: "EXTENDED_REPLY",
}

// String returns the type's name in the draft, without SSH_FXP_.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}
