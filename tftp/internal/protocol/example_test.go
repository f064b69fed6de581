package protocol_test

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
)

// A client reads a file from a server. In this example two function calls stand for the network;
// the four steps of a driver are the same.
func Example() {
	file := []byte("A transfer is slow because the sender waits; keep enough in flight that it never does.")
	now := time.Now()

	// The client sends its request.
	var client protocol.Receiver
	client.Request(now, transfer.Request{
		Name:  "motto.txt",
		Offer: transfer.Options{BlockSize: 16, Window: 4, HasSize: true},
	})

	// The server receives the request, and agrees to smaller values.
	request, err := protocol.ParseRequest(client.AppendReply(now, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	agreed := protocol.Agree(transfer.Limits{Window: 3}, request, int64(len(file)))
	var server protocol.Sender
	server.Answer(now, agreed, int64(len(file)))

	var got []byte
	toClient := func(datagram []byte) {
		chunk := client.Handle(now, datagram) // step 1
		if len(chunk.Data) > 0 || chunk.Last {
			got = append(got, chunk.Data...) // here, chunks are in order; in general, write them with WriteAt
			client.Stored(now)
		}
	}
	for {
		now = now.Add(time.Millisecond)
		server.Expire(now) // step 2: the machine knows whether its deadline has passed
		client.Expire(now)

		// Step 3 of the server: send a reply, then blocks.
		if reply := server.AppendReply(now, nil); len(reply) > 0 {
			toClient(reply)
		}
		for run := server.Due(now); run.Blocks > 0; run = server.Due(now) {
			data := file[run.Offset : run.Offset+run.Bytes]
			for i := range run.Blocks {
				n := min(len(data), server.BlockSize())
				datagram := protocol.AppendHeader(nil, run.Block+int64(i), agreed.Rollover)
				toClient(append(datagram, data[:n]...))
				data = data[n:]
			}
			server.Sent(now, run.Blocks)
		}

		// Step 3 of the client, and step 1 of the server.
		if reply := client.AppendReply(now, nil); len(reply) > 0 {
			server.Handle(now, reply)
		}

		// Step 4: the server is done, and the client keeps answering for a moment.
		if done, _ := server.Done(); done && client.Deadline().IsZero() {
			break
		}
	}
	_, err = client.Done()
	fmt.Println(string(got), err)
	fmt.Println(client.Agreed().Window, "blocks a window,", client.Agreed().Size, "bytes")
	// Output:
	// A transfer is slow because the sender waits; keep enough in flight that it never does. <nil>
	// 3 blocks a window, 86 bytes
}
