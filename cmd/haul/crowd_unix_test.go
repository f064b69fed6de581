//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/sftpclient"
)

// A crowd is a set of clients. Each repeatedly fetches or uploads one file and compares the
// contents. It pauses briefly in between, so that the server and other tests have enough CPU time.
type crowd struct {
	stop   atomic.Bool
	served []atomic.Int64 // number of transfers of each client
	all    sync.WaitGroup
}

// crowdFile is the file that a crowd fetches, and crowdSize its size in bytes.
const (
	crowdFile = "image"
	crowdSize = 256 << 10

	crowdPause = 20 * time.Millisecond
)

// newCrowd starts clients of a server for a directory. Clients upload over TFTP only if tftpPut is
// set, because after such an upload, a server continues to run for some time to repeat its last
// ACK.
func newCrowd(s *sftpChild, config *ssh.ClientConfig, dir string, tftpPut bool) *crowd {
	s.t.Helper()
	web := &httpChild{child: s.child}
	web.awaitHTTP("http")
	image := make([]byte, crowdSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(image)
	writeFile(s.t, filepath.Join(dir, crowdFile), string(image))
	keeps, closes := &http.Client{Timeout: patience}, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	fetch := func(get func() (string, error)) func(int) error {
		return func(int) error {
			got, err := get()
			if err == nil && got != string(image) {
				err = fmt.Errorf("%d bytes with another content", len(got))
			}
			return err
		}
	}
	local := s.t.TempDir()
	upload := func(name string, put func(content []byte) error) func(int) error {
		return func(n int) error {
			// Each upload is a different part of the image, with a different length.
			content := image[n%1000 : crowdSize/4+n*7919%(crowdSize/2)]
			if err := put(content); err != nil {
				return err
			}
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && !bytes.Equal(got, content) {
				err = fmt.Errorf("the server has %d bytes, want %d, or another content", len(got), len(content))
			}
			return err
		}
	}
	clients := map[string]func(n int) error{
		"TFTP get":        fetch(func() (string, error) { return cliGet(s, crowdFile) }),
		"SFTP get":        fetch(func() (string, error) { return readOnce(s, config, crowdFile) }),
		"HTTP get":        fetch(func() (string, error) { return fetchOnce(closes, web.at+"/"+crowdFile) }),
		"HTTP get (kept)": fetch(func() (string, error) { return fetchOnce(keeps, web.at+"/"+crowdFile) }),
		"TFTP put":        upload("by-tftp", func(content []byte) error { return cliPut(s, filepath.Join(local, "tftp"), "by-tftp", content) }),
		"SFTP put":        upload("by-sftp", func(content []byte) error { return writeOnce(s, config, "by-sftp", content) }),
		// A client may not repeat a PUT on a connection that the server has just closed.
		"HTTP put": upload("by-http", func(content []byte) error {
			return putOnce(closes, web.at+"/by-http", bytes.NewReader(content), int64(len(content)))
		}),
	}
	if !tftpPut {
		delete(clients, "TFTP put")
	}
	c := &crowd{served: make([]atomic.Int64, len(clients))}
	i := 0
	for name, once := range clients {
		served := &c.served[i]
		i++
		c.all.Go(func() {
			defer keeps.CloseIdleConnections()
			for n := 0; !c.stop.Load() && !s.t.Failed(); n++ {
				if err := once(n); err != nil {
					s.t.Errorf("%s %d: %v", name, n, err)
				}
				served.Add(1)
				time.Sleep(crowdPause)
			}
		})
	}
	return c
}

// cliGet fetches a file with "haul get".
func cliGet(s *sftpChild, name string) (string, error) {
	code, got, errs := haul(s.t, "get", "-q", s.url+name, "-")
	if code != 0 {
		return "", fmt.Errorf("exit code %d, %s", code, errs)
	}
	return got, nil
}

// cliPut writes a local file and uploads it with "haul put".
func cliPut(s *sftpChild, local, name string, content []byte) error {
	if err := os.WriteFile(local, content, 0o600); err != nil {
		return err
	}
	if code, _, errs := haul(s.t, "put", "-q", local, s.url+name); code != 0 {
		return fmt.Errorf("exit code %d, %s", code, errs)
	}
	return nil
}

func fetchOnce(client *http.Client, url string) (string, error) {
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func putOnce(client *http.Client, url string, content io.Reader, size int64) error {
	req, err := http.NewRequest(http.MethodPut, url, content)
	if err != nil {
		return err
	}
	req.ContentLength = size
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return nil
}

// readOnce logs in, reads a file, and disconnects.
func readOnce(s *sftpChild, config *ssh.ClientConfig, name string) (string, error) {
	c, err := sftpclient.Dial(s.t.Context(), s.at, config, sftpclient.Config{Conns: 1})
	if err != nil {
		return "", err
	}
	defer c.Close()
	file, err := c.Open(s.t.Context(), name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	return string(b), err
}

// writeOnce logs in, writes a file, and disconnects.
func writeOnce(s *sftpChild, config *ssh.ClientConfig, name string, content []byte) error {
	c, err := sftpclient.Dial(s.t.Context(), s.at, config, sftpclient.Config{Conns: 1})
	if err != nil {
		return err
	}
	defer c.Close()
	file, err := c.Create(s.t.Context(), name)
	if err != nil {
		return err
	}
	if _, err := file.ReadFrom(bytes.NewReader(content)); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// more waits until each client has been served several more times.
func (c *crowd) more(t *testing.T) {
	t.Helper()
	before := make([]int64, len(c.served))
	for i := range c.served {
		before[i] = c.served[i].Load()
	}
	for i := range c.served {
		for deadline := time.Now().Add(patience); c.served[i].Load() < before[i]+3; time.Sleep(time.Millisecond) {
			if t.Failed() || time.Now().After(deadline) {
				t.Fatalf("client %d is not served any more", i)
			}
		}
	}
}

func (c *crowd) end() {
	c.stop.Store(true)
	c.all.Wait()
}
