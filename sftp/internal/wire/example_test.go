package wire_test

import (
	"fmt"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A client reads a file from a server. Two buffers represent the two ends of an SSH channel.
func Example() {
	file := []byte("Ask for the next before the last has come.")
	var toServer, toClient []byte

	// The client sends all requests at once. It relies on the first handle that this server is
	// known to return.
	toServer = wire.AppendInit(toServer, wire.ProtocolVersion)
	toServer = wire.AppendOpen(toServer, 1, "motto.txt", wire.OpenRead, wire.Attrs{})
	toServer = wire.AppendRead(toServer, 2, "h1", 0, 32)
	toServer = wire.AppendRead(toServer, 3, "h1", 32, 32)
	toServer = wire.AppendRead(toServer, 4, "h1", 64, 32)
	toServer = wire.AppendStatVFS(toServer, 5, "motto.txt")

	// The server handles one packet after the other.
	for len(toServer) > 0 {
		n, err := wire.PacketLength(toServer)
		if err != nil || n == 0 || n > len(toServer) {
			break // the packet is malformed or incomplete
		}
		q, err := wire.ParseRequest(toServer[:n])
		toServer = toServer[n:]
		if e, ok := err.(*wire.Error); ok && e.HasID {
			toClient = wire.AppendStatus(toClient, e.ID, e.Status, e.Error())
			continue
		} else if ok {
			break // no answer is possible
		}
		switch q.Type {
		case wire.TypeInit:
			toClient = wire.AppendVersion(toClient, wire.ProtocolVersion, nil)
		case wire.TypeOpen:
			toClient = wire.AppendHandle(toClient, q.ID, "h1")
		case wire.TypeRead:
			if q.Offset >= int64(len(file)) {
				toClient = wire.AppendStatus(toClient, q.ID, wire.EOF, "")
				break
			}
			// Leave space for the header, read the data after it, and then append the header.
			start := len(toClient)
			length := min(q.Length, wire.CommonData) // whatever the client requested
			toClient = append(toClient, make([]byte, wire.DataHeaderSize+length)...)
			got := copy(toClient[start+wire.DataHeaderSize:], file[q.Offset:])
			toClient = wire.AppendDataHeader(toClient[:start], q.ID, got)[:start+wire.DataHeaderSize+got]
		default:
			toClient = wire.AppendStatus(toClient, q.ID, wire.Unsupported, "")
		}
	}

	// The client reads the header first, which shows where to store the data.
	received := make([]byte, len(file))
	for len(toClient) > 0 {
		h, err := wire.ParseHeader(toClient[:wire.HeaderSize])
		if err != nil {
			fmt.Println(err)
			return
		}
		if h.Type == wire.TypeData {
			id, n, _, err := wire.ParseDataHeader(toClient[:wire.DataHeaderSize])
			if err != nil {
				fmt.Println(err)
				return
			}
			copy(received[32*(id-2):], toClient[wire.DataHeaderSize:][:n])
			fmt.Println(h.Type, id, n, "bytes")
		} else {
			p, err := wire.ParseReply(toClient[:h.Size])
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(p.Type, p.ID, p.Err())
		}
		toClient = toClient[h.Size:]
	}
	fmt.Println(string(received))
	// Output:
	// VERSION 0 <nil>
	// HANDLE 1 <nil>
	// DATA 2 32 bytes
	// DATA 3 10 bytes
	// STATUS 4 server says end of file (status 1)
	// STATUS 5 server says operation unsupported (status 8)
	// Ask for the next before the last has come.
}
