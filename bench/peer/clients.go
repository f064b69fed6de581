package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
)

// A Client is the recipe for a client that moves single files.
type Client struct {
	Name    string // unique name, which is the same in all reports
	Version string // version that the program reports
	Path    string // path of the program

	Blocks  bool // the client can request a block size
	Windows bool // the client can request a window
	Note    string

	env  []string
	get  func(Transfer) []string
	put  func(Transfer) []string
	fail string // text in the client's output that means a failure although the exit code is 0; may be empty
}

// A Transfer describes one file that a client moves.
type Transfer struct {
	Server netip.AddrPort
	Remote string // the file's name on the server
	Local  string // path of the local file, which a download writes and an upload reads

	BlockSize int // block size to request, in bytes; 0 leaves it to the client
	Window    int // window to request, in blocks; 0 leaves it to the client
}

// ErrOption means that a client cannot request an option that the transfer needs, or cannot do a
// task.
var ErrOption = errors.New("the client has no such option")

// Get returns the command that downloads a file. If run is nil, it means exec.CommandContext. Get
// may return [ErrOption].
func (c *Client) Get(ctx context.Context, run Command, t Transfer) (*exec.Cmd, error) {
	return c.command(ctx, run, t, c.get)
}

// Put returns the command that uploads a file. If run is nil, it means exec.CommandContext. Put may
// return [ErrOption].
func (c *Client) Put(ctx context.Context, run Command, t Transfer) (*exec.Cmd, error) {
	return c.command(ctx, run, t, c.put)
}

func (c *Client) command(ctx context.Context, run Command, t Transfer, args func(Transfer) []string) (*exec.Cmd, error) {
	if t.BlockSize > 0 && !c.Blocks {
		return nil, fmt.Errorf("ask with %s for blocks of %d bytes: %w", c.Name, t.BlockSize, ErrOption)
	}
	if t.Window > 0 && !c.Windows {
		return nil, fmt.Errorf("ask with %s for a window of %d blocks: %w", c.Name, t.Window, ErrOption)
	}
	return command(ctx, run, c.env, c.Path, args(t)...), nil
}

// Check returns an error if the transfer failed. `output` is the command's output on both streams,
// and `err` is the error from running the command.
func (c *Client) Check(output []byte, err error) error {
	said := bytes.TrimSpace(output)
	if err == nil && c.fail != "" && bytes.Contains(output, []byte(c.fail)) {
		return fmt.Errorf("%s: %s", c.Name, said)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", c.Name, err, said)
	}
	return nil
}

func (f *finder) clients() {
	if p, ok := f.packaged("tftp-hpa", "tftp", "tftp-hpa"); ok {
		f.client(tftpHPA, p, p.version("-V"))
	}
	if p, ok := f.packaged("atftp", "atftp", "atftp"); ok {
		f.client(atftp, p, p.version("--version"))
	}
	if p, ok := f.packaged("curl", "curl", "curl"); ok {
		f.client(curl, p, p.version("--version"))
	}
	if c, err := HaulClient("haul", filepath.Join(f.bin, "haul")); err == nil {
		f.set.Clients = append(f.set.Clients, c)
	} else {
		f.absent(err.Error()+"; make build builds it", "haul (client)")
	}
}

func (f *finder) client(c Client, p program, version string) {
	c.Version, c.Path, c.env = version, p.path, p.env
	f.set.Clients = append(f.set.Clients, c)
}

// tftpHPA requests no options at all.
var tftpHPA = Client{
	Name: "tftp-hpa",
	fail: "rror code", // part of "Error code", after which the client exits with 0
	get:  func(t Transfer) []string { return append(hpaArgs(t), "get", t.Remote, t.Local) },
	put:  func(t Transfer) []string { return append(hpaArgs(t), "put", t.Local, t.Remote) },
}

func hpaArgs(t Transfer) []string {
	return []string{"-m", "binary", t.Server.Addr().String(), port(t.Server), "-c"}
}

var atftp = Client{
	Name: "atftp", Blocks: true, Windows: true,
	Note: "with windows over 16 it overruns its own socket buffer",
	get:  func(t Transfer) []string { return atftpArgs("--get", t) },
	put:  func(t Transfer) []string { return atftpArgs("--put", t) },
}

func atftpArgs(way string, t Transfer) []string {
	var args []string
	if t.BlockSize > 0 {
		args = append(args, "--option", fmt.Sprintf("blksize %d", t.BlockSize))
	}
	if t.Window > 0 {
		args = append(args, "--option", fmt.Sprintf("windowsize %d", t.Window))
	}
	return append(args, way, "-r", t.Remote, "-l", t.Local, t.Server.Addr().String(), port(t.Server))
}

// curl requests tsize, timeout and blksize, by default with a block size of 512.
var curl = Client{
	Name: "curl", Blocks: true,
	get: func(t Transfer) []string { return append(curlArgs(t), "--output", t.Local, url(t)) },
	put: func(t Transfer) []string { return append(curlArgs(t), "--upload-file", t.Local, url(t)) },
}

func curlArgs(t Transfer) []string {
	args := []string{"--silent", "--show-error"}
	if t.BlockSize > 0 {
		args = append(args, "--tftp-blksize", strconv.Itoa(t.BlockSize))
	}
	return args
}

// HaulClient returns the recipe for a haul binary as a client. It returns an error if the binary
// does not run.
func HaulClient(name, path string) (Client, error) {
	servers, err := Haul(name, path)
	if err != nil {
		return Client{}, err
	}
	return Client{
		Name: name, Version: servers[0].Version, Path: servers[0].Path, Blocks: true, Windows: true,
		get: func(t Transfer) []string { return append([]string{"get", url(t), t.Local}, haulClientArgs(t)...) },
		put: func(t Transfer) []string { return append([]string{"put", t.Local, url(t)}, haulClientArgs(t)...) },
	}, nil
}

func haulClientArgs(t Transfer) []string {
	args := []string{"--quiet"}
	if t.BlockSize > 0 {
		args = append(args, "--blksize", strconv.Itoa(t.BlockSize))
	}
	if t.Window > 0 {
		args = append(args, "--windowsize", strconv.Itoa(t.Window))
	}
	return args
}

func url(t Transfer) string { return "tftp://" + t.Server.String() + "/" + t.Remote }
