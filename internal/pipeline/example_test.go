package pipeline_test

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A file is read over two sessions. A queue replaces the network, and each answer has at most 9 bytes.
// The steps in the comments are those in the package's documentation.
func Example() {
	file := "The link is never idle while there is anything left to ask."
	got := make([]byte, 64)
	now := time.Now()

	link := pipeline.NewLink(pipeline.Limits{SessionBytes: 32, MinBytes: 48})
	plan := pipeline.New(pipeline.Config{Link: link, Size: int64(len(file)), UntilEOF: true, Chunk: 12})

	var network []pipeline.Request
	send := func() {
		for session := range 2 { // steps 1 and 3
			for {
				request, ok := plan.Next(now, session)
				if !ok {
					break
				}
				network = append(network, request)
			}
		}
	}
	for send(); len(network) > 0; send() {
		last := len(network) - 1 // the latest first, because answers arrive in any order
		request := network[last]
		network = network[:last]
		now = now.Add(time.Millisecond)

		if request.Offset >= int64(len(file)) {
			plan.EOF(request.ID)
			continue
		}
		answer := file[request.Offset:]
		answer = answer[:min(request.Len, len(answer), 9)]

		pending, ok := link.Find(request.ID) // step 2
		if !ok {
			continue // no request of ours has this id
		}
		if pending.Missing != (pipeline.Range{}) {
			copy(got[request.Offset:], answer) // a real driver calls WriteAt
		}
		plan.Reply(now, request.ID, len(answer))
	}

	end, _ := plan.End() // step 5
	remote, local := plan.Err()
	fmt.Println(plan.Done(), remote, local)
	fmt.Printf("%s\n", got[:end])
	// Output:
	// true <nil> <nil>
	// The link is never idle while there is anything left to ask.
}
