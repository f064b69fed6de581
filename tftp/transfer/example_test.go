package transfer_test

import (
	"errors"
	"fmt"

	"github.com/haul-project/haul/tftp/transfer"
)

// A server or client returns the ERROR packet of the peer, wrapped or not, as a *transfer.Error.
func ExampleError() {
	err := fmt.Errorf("get boot.img: %w", &transfer.Error{Code: transfer.FileNotFound, Remote: true})

	var refusal *transfer.Error
	if errors.As(err, &refusal) && refusal.Code == transfer.FileNotFound {
		fmt.Println(err)
	}
	// Output: get boot.img: peer says file not found (ERROR 1)
}

// Check says which option is out of its range.
func ExampleOptions_Check() {
	fmt.Println(transfer.Options{BlockSize: 1428, Window: 64}.Check())
	fmt.Println(transfer.Options{BlockSize: 70000}.Check())
	// Output:
	// <nil>
	// blksize 70000 is not in 8 to 65464
}
