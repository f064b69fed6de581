package webclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web/webclient"
)

// Fetch a file from a web server. The local file gets its name when it is complete.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader("kernel"))
	}))
	defer server.Close()

	c, err := webclient.New(server.URL+"/images/", webclient.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	to := store.Mem(0)
	result, err := treecopy.Copy(context.Background(), treecopy.Job{Sources: []treecopy.Source{{Tree: c.Tree(), Name: "vmlinuz"}}, To: to})
	fmt.Println(result.Copied, result.Bytes, err)
	// Output: 1 6 <nil>
}
