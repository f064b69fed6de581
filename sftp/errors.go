package sftp

import "errors"

// ErrAbandoned is why a transfer ended that the client did not end: its channel
// closed, or the connection was gone. A hidden upload is discarded then.
var ErrAbandoned = errors.New("sftp: the client left it open")

// ErrEnded is why a transfer ended that the server cut off, as it ended
// the connection. The error wrapped beside it says why. A hidden upload is
// discarded then, too.
var ErrEnded = errors.New("sftp: ended by the server")

// errEnding is why connections end when their server does.
var errEnding = errors.New("the server ends")

// errOurs marks what is no fault of the peer.
var errOurs = errors.New("refused by the server's configuration")

// errAnswered says that a request has been answered otherwise than by a STATUS.
var errAnswered = &answered{}

type answered struct{}

func (*answered) Error() string { return "answered" }
