package tftpclient_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// Fetch the configurations of many switches at once, over a few sockets.
func ExamplePool() {
	var switches []string
	for range 3 {
		addr, stop := serveFiles()
		defer stop()
		switches = append(switches, addr)
	}
	backup := store.Mem(0) // a localdir.Dir would store them on the disk
	pool := tftpclient.Pool{Sockets: 8}
	defer pool.Close()

	var mu sync.Mutex
	var lines []string
	for i, addr := range switches {
		t, err := tftpclient.ParseURL("tftp://" + addr + "/motd")
		if err != nil {
			panic(err)
		}
		name := fmt.Sprintf("switch%d", i+1)
		create := func(size int64) (store.Upload, error) {
			return backup.Create(context.Background(), name, store.Create{Size: size})
		}
		err = pool.Get(context.Background(), t, create, func(res tftpclient.Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintln(name, res.Bytes, "bytes", err))
		})
		if err != nil {
			panic(err)
		}
	}
	pool.Wait()
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Print(line)
	}
	// Output:
	// switch1 8 bytes <nil>
	// switch2 8 bytes <nil>
	// switch3 8 bytes <nil>
}
