package web_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/web"
)

// Serve a directory for downloads and new files.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	h := &web.Handler{
		Store:   localdir.New(root),
		Access:  web.AccessCreate, // uploads cannot replace files
		Listing: true,
		Ended: func(x *web.Exchange) {
			fmt.Println(x.Method, x.Name, x.Status, x.Received(), "in,", x.Sent(), "out")
		},
	}
	server := httptest.NewServer(h) // or http.ListenAndServe("127.0.0.1:8080", h)
	defer server.Close()

	put, err := http.NewRequest("PUT", server.URL+"/motd", strings.NewReader("Welcome.\n"))
	if err != nil {
		log.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(put)
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()

	get, err := http.NewRequest("GET", server.URL+"/motd", nil)
	if err != nil {
		log.Fatal(err)
	}
	get.Header.Set("Range", "bytes=0-6")
	resp, err = http.DefaultClient.Do(get)
	if err != nil {
		log.Fatal(err)
	}
	part, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		log.Fatal(err)
	}
	server.Close() // waits for the requests
	fmt.Printf("%q, %s\n", part, resp.Header.Get("Content-Range"))
	// Output:
	// PUT /motd 201 9 in, 0 out
	// GET /motd 206 0 in, 7 out
	// "Welcome", bytes 0-6/9
}
