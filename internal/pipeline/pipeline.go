// Package pipeline decides which byte range of a file to ask for next, and how
// many bytes may be outstanding, over one or more lanes to a server.
//
// A [Link] is what is known of the way to a server: its lanes (SSH channels,
// HTTP connections), how fast it delivers, how long a round trip takes, and
// what is outstanding. A [Plan] moves one file over a link, in either
// direction; any number of plans share a link. An [Ops] bounds requests that
// carry no data: stat, open, close, readdir.
//
// Nothing here opens a socket, reads a clock, touches a file or starts a
// goroutine, and one Link with its plans is for one caller at a time. A driver
// that reads a file works in these steps:
//
//  1. for every open lane call [Plan.Next] until it says no, and send what it
//     returned. To spread the load, begin with the lane that has least
//     outstanding;
//  2. for every answer ask [Link.Find] what is still missing of it, store that,
//     and call [Plan.Reply]. Otherwise call [Plan.EOF], [Plan.Failed], or
//     [Plan.LocalFailed] if it is the store that refuses;
//  3. after any of these do step 1 again, for all lanes: an answer on one may
//     make room on another. At [Plan.Deadline] do so even if nothing came;
//  4. open a lane when [Plan.Lanes] is above the number that are open, call
//     [Link.LimitLanes] if the server refuses, and [Link.LaneLost] when one ends;
//  5. once [Plan.Done], keep the file as long as [Plan.End] says, or, if
//     [Plan.Err] reports an error, cut it to [Plan.Contiguous];
//  6. forget the plan when [Plan.Outstanding] is zero too: a range may have been
//     asked twice, and its second answer is still to come.
//
// A driver that writes does the same: Next says what to send, Reply says that
// the server has it. Sources and sinks that set the pace themselves (a reader
// that takes, a writer that gives) move [Plan.Limit].
package pipeline

import "errors"

// Bounds. Every table and every list in this package is held by one of them.
const (
	// MaxLanes is the highest number of lanes of one link; they are numbered
	// from 0.
	MaxLanes = 64

	// MaxOutstanding is the highest number of requests outstanding on one link,
	// and on one Ops: 64 MiB in requests of 16 KiB.
	MaxOutstanding = 1 << outstandingBits

	outstandingBits = 12
	generationBits  = 31 - outstandingBits // the top bit of an id is the driver's

	// maxPieces bounds the pieces that a plan sees its file in. Requests and their
	// short answers make half of that at most; more is a server that answers every
	// request shorter than the one before.
	maxPieces = 8 * MaxOutstanding

	// maxEmpty is how often one range may be answered by nothing at all.
	maxEmpty = 3

	// minChunk is what short answers cannot shrink requests below: OpenSSH's
	// MIN_READ_SIZE.
	minChunk = 512

	// shortsInRow is how many short answers, without a full one between them,
	// shrink further requests. OpenSSH needs one; but one is also what the end
	// of a growing file looks like.
	shortsInRow = 4
)

// none is the index of nothing.
const none = -1

// The defaults of fields of [Limits] and [Config] that are zero.
const (
	// DefaultLaneBytes is the window of an SSH channel, a constant both in
	// OpenSSH (CHAN_SES_WINDOW_DEFAULT) and in x/crypto/ssh.
	DefaultLaneBytes = 2 << 20

	// DefaultMinBytes is one lane. It also covers what a least round trip does
	// not: a server that is busy longer than the way to it takes.
	DefaultMinBytes = 2 << 20

	DefaultMaxBytes = 64 << 20
	DefaultLanes    = 8        // OpenSSH's MaxSessions is 10
	DefaultChunk    = 32 << 10 // what every SFTP server must answer (draft-ietf-secsh-filexfer-02 §3)
)

// ErrNoProgress fails a plan whose server answers the same range with no bytes
// and no end of file, again and again.
var ErrNoProgress = errors.New("server answers with no data and no end of file")

// ErrFragments fails a plan whose server answers so short, and in such an
// order, that the file is in too many pieces to keep track of.
var ErrFragments = errors.New("server's short answers leave the file in too many pieces")

// A Request is one range to move. ID is its name on the wire: no other request
// that is outstanding on the link has it, and its top bit is clear, so that a
// driver has the other half of all numbers for requests of its own.
type Request struct {
	ID     uint32
	Offset int64
	Len    int
}

// Stats counts what one plan saw. All only grow.
type Stats struct {
	Requests  int64 // made by Next
	Moved     int64 // bytes moved, each counted once
	Duplicate int64 // bytes that came again, or lie beyond the end
	Short     int64 // answers with less than asked, but something
	Empty     int64 // answers with nothing
	Repeats   int64 // requests for a range that another lane is late with
	Lost      int64 // requests that went down with their lane
}
