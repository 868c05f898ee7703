"""The ledger of speeds: one file a part, each giving rows of one type. `atlas bench` runs them."""
