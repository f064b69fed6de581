package pxedoctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/tftpclient"
)

const (
	// maxFile is the largest size, in bytes, of a boot file that is fetched.
	maxFile = 256 << 20

	// fetchTime limits the time to fetch a boot file.
	fetchTime = time.Minute
)

var errSize = fmt.Errorf("it has more than %s", console.FormatSize(maxFile))

// fetch fetches a file by TFTP or HTTP, and returns its size.
func fetch(ctx context.Context, url string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if strings.HasPrefix(url, "tftp://") {
		return fetchTFTP(ctx, url)
	}
	return fetchHTTP(ctx, url)
}

func fetchTFTP(ctx context.Context, url string) (int64, error) {
	target, err := tftpclient.ParseURL(url)
	if err != nil {
		return 0, err
	}
	c := &tftpclient.Client{}
	counted := &countedUpload{}
	res, err := c.Get(ctx, target, func(int64) (store.Upload, error) { return counted, nil })
	if res.Resent+res.Timeouts+res.Duplicates > 0 {
		// The path loses packets, so the server may have missed the last acknowledgement. While
		// Wait runs, the client repeats the acknowledgement if the server needs it.
		c.Wait()
	}
	return counted.size, err
}

func fetchHTTP(ctx context.Context, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	// Firmware does not use a proxy.
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(resp.Status)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxFile+1))
	if n > maxFile {
		return 0, errSize
	}
	return n, err
}

// A countedUpload discards a file, and counts only its size.
type countedUpload struct{ size int64 }

func (u *countedUpload) WriteAt(p []byte, off int64) (int, error) {
	if u.size = max(u.size, off+int64(len(p))); u.size > maxFile {
		return 0, errSize
	}
	return len(p), nil
}

func (u *countedUpload) Truncate(size int64) error { u.size = size; return nil }
func (u *countedUpload) Commit() error             { return nil }
func (u *countedUpload) Close() error              { return nil }
