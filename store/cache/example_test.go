package cache_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/cache"
)

// Read a file twice through a cache. The second time, nothing comes from the source.
func Example() {
	ctx := context.Background()
	source := store.Mem(0)
	u, err := source.Create(ctx, "vmlinuz", store.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte("kernel"), 0); err != nil {
		log.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		log.Fatal(err)
	}
	// A file that has just changed is not cached: it could change again within the same tick of the
	// clock.
	if err := source.SetAttr(ctx, "vmlinuz", store.Attr{ModTime: time.Unix(1, 0)}, false); err != nil {
		log.Fatal(err)
	}

	dir, err := os.MkdirTemp("", "haul-cache")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	c, err := cache.Open(cache.Config{Dir: dir, Size: cache.MinSize})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	files := c.Store("images", source)
	for range 2 {
		f, err := files.Open(ctx, "vmlinuz")
		if err != nil {
			log.Fatal(err)
		}
		data, err := io.ReadAll(io.NewSectionReader(f, 0, 6))
		_ = f.Close()
		fmt.Println(string(data), err, "fetched:", c.Stats().BytesFetched)
	}
	// Output:
	// kernel <nil> fetched: 6
	// kernel <nil> fetched: 6
}
