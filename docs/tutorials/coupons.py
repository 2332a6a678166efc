# %% [markdown]
# # coupons

# %%
print(1)
