// Transactions with several batches in flight, by franz-go: TRANSACTIONS of BATCHES records, each
// record its own request, to one partition after the other. Prints how many could not be committed.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return found
}

// commit sends one transaction; the values are TURN-NUMBER, all of one turn to one partition.
func commit(ctx context.Context, client *kgo.Client, topic string, turn, batches int) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for at := range batches {
		value := fmt.Appendf(nil, "%d-%d", turn, at)
		record := &kgo.Record{Topic: topic, Partition: int32(turn % 3), Value: value}
		client.Produce(ctx, record, nil)
		time.Sleep(2 * time.Millisecond)
	}
	failure := client.Flush(ctx)
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		failure = err
		if err := client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
			return err
		}
	}
	return failure
}

func main() {
	brokers, topic := strings.Split(os.Args[1], ","), os.Args[2]
	transactions, batches := number(os.Args[3]), number(os.Args[4])
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.TransactionalID("franz"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	failed := 0
	for turn := range transactions {
		if err := commit(ctx, client, topic, turn, batches); err != nil {
			fmt.Fprintf(os.Stderr, "transaction %d: %v\n", turn, err)
			failed++
		}
		if ctx.Err() != nil {
			panic(ctx.Err())
		}
	}
	fmt.Println(failed)
}
