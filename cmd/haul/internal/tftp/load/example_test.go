package load_test

import (
	"context"
	"fmt"
	"log"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/load"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// Let ten clients fetch a hundred files of haul's test content.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	server := tftp.Config{Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
		content := make([]byte, 20_000)
		if _, err := load.Pattern(int64(len(content))).ReadAt(content, 0); err != nil {
			return nil, err
		}
		return store.FromBytes(r.Name, content), nil
	}}
	listener, err := server.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- listener.Serve(ctx) }()

	l := load.Load{
		Target:      tftpclient.Target{Host: "127.0.0.1", Port: listener.Addr().Port(), Name: "boot/{}"},
		Concurrency: 10,
		Transfers:   100,
		Pattern:     true,
		Size:        20_000,
		BlockSize:   1468,
		Window:      8,
	}
	report, err := l.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Transfers, "transfers,", report.Failed, "failed,", report.Bytes, "bytes in", report.Packets, "packets")

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output: 100 transfers, 0 failed, 2000000 bytes in 1400 packets
}
