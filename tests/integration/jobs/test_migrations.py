"""The migrations make what the models say, and the newest can be taken back."""

from migrations import upgrade


def test_the_migrated_schema_is_the_models(database_url: str) -> None:
    upgrade.check(database_url)


def test_the_newest_migration_goes_down_and_up_again(database_url: str) -> None:
    upgrade.downgrade(database_url)
    upgrade.upgrade(database_url)

    upgrade.check(database_url)
